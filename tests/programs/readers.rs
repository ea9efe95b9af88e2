//! The readers of requests beside the real ones: PHP, WordPress and a GraphQL server.

mod graphql;
mod ixr;
mod php;
