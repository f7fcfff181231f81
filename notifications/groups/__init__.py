"""Groups that are due become notifications: first messages, changes and reminders."""
