"""Requests that declare, bind, purge and delete, from every dialect."""
