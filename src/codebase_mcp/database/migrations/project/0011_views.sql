-- Keeps the number of the migration of views, which takes the place of this file.
SELECT;
