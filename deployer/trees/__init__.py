"""Operations on folder trees that a tenant may write at the same time."""
