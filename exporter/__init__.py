"""What others read: Prometheus families, the JSON of the report, and the HTTP routes for both."""
