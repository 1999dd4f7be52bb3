"""The cluster image and the MetadataStore port."""
