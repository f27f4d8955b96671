"""What only the page needs: `scene` has the events as it draws them, `members` the table row of each event."""
