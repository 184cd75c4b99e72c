"""The filters of a source, which choose messages for a consumer."""
