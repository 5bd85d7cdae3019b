"""`abreast bench`: cases, processes, lines, tables, figures and the report page."""
