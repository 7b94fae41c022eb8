"""One Streamlit script a screen. A page reads the last report and draws it; it asks no network."""
