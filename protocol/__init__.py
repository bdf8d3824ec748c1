"""Bytes on the wire: messages, frames, tensor codecs, sockets, errors."""
