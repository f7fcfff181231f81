"""The types of channels. Each module renders messages for one type, and sends each message once."""
