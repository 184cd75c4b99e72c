"""The administration of a namespace by HTTP, as the SDKs' administration clients ask for it."""
