"""Stream-table join: clicks enriched with the user's profile as it is now;
the table is kept from the profiles' changes.
"""

from headwater.streams import App

app = App("enriched-clicks")
profiles = app.table("profiles", store="profiles")
clicks = app.stream("clicks")
clicks.left_join(profiles, lambda click, profile: {**click, "city": profile and profile["city"]}).to("enriched-clicks")
