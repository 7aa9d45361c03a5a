//! Whole numbers in replies.

use document::Value;

/// A count or size as MongoDB tells it: 32 bits wide while it fits. Clients that read statistics into typed
/// fields expect so.
pub fn narrow(number: impl TryInto<i64>) -> Value {
    let number = number.try_into().unwrap_or(i64::MAX);
    i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_narrow_while_they_can_be() {
        assert_eq!(narrow(7_u64), Value::Int32(7));
        assert_eq!(narrow(i64::from(i32::MAX)), Value::Int32(i32::MAX));
        assert_eq!(narrow(1_i64 << 31), Value::Int64(1 << 31));
        assert_eq!(narrow(u64::MAX), Value::Int64(i64::MAX));
    }
}
