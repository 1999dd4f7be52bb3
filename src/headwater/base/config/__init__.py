"""Config: one table of definitions (`table`), and what is made of it: a broker's values (`broker`), the answers of
DescribeConfigs (`describe`), checks of changes (`alter`) and docs/CONFIG.md (`document`)."""
