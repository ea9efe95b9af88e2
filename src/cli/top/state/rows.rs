//! The clients that are listed: found, ordered, and one of them selected.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::super::overview::ClientOrder;
use super::{RowId, TopState};
use crate::observe::admin::pages::ClientPart;

impl TopState {
    /// The clients that the search finds, in the wanted order.
    pub(in super::super) fn rows(&self) -> Vec<&ClientPart> {
        let clients = self.overview.clients.iter().flat_map(|list| &list.clients);
        let mut rows: Vec<_> = clients.filter(|row| self.is_found(row)).collect();
        match self.query.order {
            ClientOrder::Refused => rows.sort_by_key(|row| Reverse((row.refused, row.attempts))),
            ClientOrder::Attempts => rows.sort_by_key(|row| Reverse((row.attempts, row.refused))),
            ClientOrder::Client => {
                rows.sort_by_key(|row| (row.account.clone(), address(row), row.limit.clone()))
            }
        }
        rows
    }

    /// The position of the selected row: the first one if it is gone.
    pub(in super::super) fn selected_index(&self) -> Option<usize> {
        let rows = self.rows();
        let at = rows.iter().position(|row| self.selected.as_ref() == Some(&RowId::of(row)));
        at.or((!rows.is_empty()).then_some(0))
    }

    /// Selects the row so many further down, or up.
    pub(super) fn select_by(&mut self, distance: isize) {
        let Some(at) = self.selected_index() else { return };
        let last = self.rows().len().saturating_sub(1);
        let row = at.saturating_add_signed(distance).min(last);
        self.selected = self.rows().get(row).map(|row| RowId::of(row));
    }

    fn is_found(&self, row: &ClientPart) -> bool {
        let texts = [Some(&row.limit), row.client.as_ref(), row.account.as_ref()];
        texts.into_iter().flatten().any(|text| text.as_str().to_lowercase().contains(&self.search))
    }
}

/// Orders addresses as numbers, and anything else behind them.
fn address(row: &ClientPart) -> (bool, Option<IpAddr>, String) {
    let text = row.client.as_ref().map_or("", |client| client.as_str());
    let address = text.split('/').next().and_then(|address| address.parse().ok());
    (address.is_none(), address, text.to_owned())
}
