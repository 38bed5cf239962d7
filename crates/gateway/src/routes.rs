//! Which route a request belongs to: the first of the settings that covers its method and path.

use crate::config::RouteSettings;
use crate::path::plain;
use http::Method;

/// What the routes say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A command of the route with this number.
    Command(usize),
    /// No command: it passes through, its key with it.
    Through,
    /// An upstream might read the path as one of another route.
    Ambiguous,
}

/// Finds the route of a request.
pub(crate) fn find(routes: &[RouteSettings], method: &Method, path: &str) -> Place {
    let found = covering(routes, method, path);
    if found != covering(routes, method, &plain(path)) {
        return Place::Ambiguous;
    }
    found.map_or(Place::Through, Place::Command)
}

fn covering(routes: &[RouteSettings], method: &Method, path: &str) -> Option<usize> {
    routes.iter().position(|route| {
        let here = route.pattern.as_ref().is_none_or(|pattern| pattern.covers(path));
        here && route.methods.contains(method)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, Settings};

    fn routes(text: &str) -> Vec<RouteSettings> {
        let text = format!("upstream = \"http://a\"\n{text}");
        Settings::read(Some(("f", &text)), &Overrides::default()).unwrap().routes
    }

    #[test]
    fn every_post_is_a_command_unless_a_route_says_otherwise() {
        let routes = routes("");
        for method in [Method::POST, Method::PATCH] {
            assert_eq!(find(&routes, &method, "//any/../thing/"), Place::Command(0));
        }
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::HEAD] {
            assert_eq!(find(&routes, &method, "/"), Place::Through);
        }
    }

    #[test]
    fn t36_a_second_way_to_write_a_routes_path_does_not_walk_around_it() {
        let routes = routes(
            "[[route]]\nname = \"orders\"\npath = \"/orders\"\n\
             [[route]]\nname = \"files\"\npath = \"/files/*\"\nmethods = [\"PUT\"]\n",
        );
        let of = |method: &Method, path: &str| find(&routes, method, path);
        assert_eq!(of(&Method::POST, "/orders"), Place::Command(0));
        assert_eq!(of(&Method::POST, "/orders/1"), Place::Command(2));
        for path in ["/orders/", "//orders", "/x/../orders", "/%6frders", "/./orders"] {
            assert_eq!(of(&Method::POST, path), Place::Ambiguous, "{path}");
        }
        assert_eq!(of(&Method::GET, "//orders"), Place::Through);
        assert_eq!(of(&Method::PUT, "/files/a/b"), Place::Command(1));
        assert_eq!(of(&Method::PUT, "/files/../secret"), Place::Ambiguous);
        assert_eq!(of(&Method::PUT, "/orders"), Place::Through);
    }
}
