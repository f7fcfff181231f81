"""`pharos init`: recognizes the application in a folder, and writes its workflow document."""
