"""Sign-in of people: passwords, sessions of browsers, one-time links, second factors and limits of attempts."""
