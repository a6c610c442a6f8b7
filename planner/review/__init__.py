"""Result documents."""
