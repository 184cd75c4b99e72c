"""The administration of a namespace by HTTP, for the SDKs' administration clients."""
