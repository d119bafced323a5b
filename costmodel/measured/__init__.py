"""Tables of measured operators: reading them, predicting them, fitting parameters to them."""
