"""A measured run beside its prediction: what ran and was offered, which account of the ledger hurts, what moves it."""
