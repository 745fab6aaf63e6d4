"""The Streamlit dashboard: thin views over `traces`."""
