"""Names of 0.1 that scripts of users import: each module here names where it has gone."""
