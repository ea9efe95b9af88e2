//! What callers of the admin API send.

use std::collections::BTreeMap;

use tollgate_grammar::record::Optional;
use tollgate_grammar::records;

records! {
    /// A request to explain.
    pub ExplainedRequest {
        /// The method.
        method: String,
        /// The address asked for, or only its path.
        url: String,
        /// The client, whatever the headers say.
        from: Optional<String>,
        /// The address that connects.
        peer: Optional<String>,
        /// Header lines.
        headers: Optional<BTreeMap<String, String>>,
        /// The body.
        data: Optional<String>,
    }

    /// How many tokens a bucket gets.
    pub CreditRequest {
        /// At least 1.
        tokens: u32,
        /// Under this limit only.
        limit: Optional<String>,
    }

    /// A rate of a bucket's own.
    pub RateRequest {
        /// The limit.
        limit: String,
        /// As in "60/min".
        rate: String,
        /// As in "1d".
        lasts("for"): String,
    }

    /// Which buckets are reset.
    pub ResetRequest {
        /// Under this limit only.
        limit: Optional<String>,
        /// Whether buckets that an address shares with more neighbours than others do are left out.
        only: Optional<bool>,
    }

    /// The limit whose bucket is meant.
    pub LimitRequest {
        /// Without it all limits are.
        limit: Optional<String>,
    }

    /// For how long a bucket is exempt or banned.
    pub LastingRequest {
        /// As in "1h".
        lasts("for"): String,
        /// Under this limit only.
        limit: Optional<String>,
    }

    /// For how long a prefix is exempt.
    pub PrefixRequest {
        /// As in "1h".
        lasts("for"): String,
        /// The reason, for the log: at most 200 characters.
        why: Optional<String>,
    }

    /// For how long a prefix is banned.
    pub BanRequest {
        /// As in "1h".
        lasts("for"): String,
        /// The reason, for the log: at most 200 characters.
        why: Optional<String>,
        /// Whether every request is refused, also those that no route counts.
        all: Optional<bool>,
    }

    /// A person to forget.
    pub ForgetRequest {
        /// Accounts and addresses: "user:NAME", "ip:ADDRESS".
        who: Vec<String>,
        /// Whether nothing is changed.
        dry_run: Optional<bool>,
        /// Whether bans and rates that operators gave the person end.
        bans: Optional<bool>,
    }

    /// A mode for a while.
    pub ModeRequest {
        /// "observe" or "enforce".
        mode: String,
        /// As in "1h"; without it until the next reload.
        lasts("for"): Optional<String>,
    }
}
