"""Figures and tables made from a fleet. Knows ``fleet`` alone; nothing here imports Streamlit."""
