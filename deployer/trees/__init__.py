"""Operations on folder trees that a tenant may write to at the same time."""
