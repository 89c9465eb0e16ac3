//! Divides lists into pages of a limited size, so that an answer has at most about 2,000 tokens.

use serde_json::Value;

/// Bytes of JSON on a page: with what stands beside the list an answer has fewer than 8,000, at 4 bytes a token.
const PAGE_BYTES: usize = 6_000;

/// A page of a list.
#[derive(Debug, PartialEq)]
pub struct Page {
    pub items: Vec<Value>,
    /// From 1
    pub page: u64,
    pub pages: u64,
}

/// The page with this number; an empty one if there are fewer. A page has at least one item.
pub fn page(items: Vec<Value>, number: u64) -> Page {
    let mut pages: Vec<Vec<Value>> = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        let length = item.to_string().len() + 1;
        if bytes + length > PAGE_BYTES && bytes > 0 {
            pages.push(Vec::new());
            bytes = 0;
        }
        bytes += length;
        if let Some(last) = pages.last_mut() {
            last.push(item);
        }
    }
    let count = pages.len() as u64;
    let at = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let items = if at < pages.len() { pages.swap_remove(at) } else { Vec::new() };
    Page { items, page: number, pages: count }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_items_are_on_exactly_one_page() {
        let items: Vec<Value> = (0..100).map(|at| json!({ "at": at, "text": "x".repeat(300) })).collect();
        let first = page(items.clone(), 1);
        assert!(first.pages > 1 && Value::from(first.items.clone()).to_string().len() <= PAGE_BYTES + 2);
        let all: Vec<Value> = (1..=first.pages).flat_map(|number| page(items.clone(), number).items).collect();
        assert_eq!(all, items);
        assert_eq!(page(items, first.pages + 1).items, Vec::<Value>::new());
    }

    #[test]
    fn an_item_that_is_longer_than_a_page_is_a_page() {
        let items = vec![json!("x".repeat(PAGE_BYTES * 2)), json!(1)];
        assert_eq!(page(items.clone(), 1).items, items[..1]);
        assert_eq!(page(items, 2), Page { items: vec![json!(1)], page: 2, pages: 2 });
        assert_eq!(page(Vec::new(), 1), Page { items: Vec::new(), page: 1, pages: 1 });
    }
}
