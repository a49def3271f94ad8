"""Lightning modules and what surrounds a fit."""
