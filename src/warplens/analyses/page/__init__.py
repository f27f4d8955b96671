"""What only the page needs: the events as it draws them, and which table rows they belong to."""
