# _errors.py - The exceptions of linattn.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every exception that linattn raises is an :class:`Error` and also the built-in exception that a
caller would expect: ``ValueError`` for a value, ``TypeError`` for a data type, ``OSError`` for a
file, ``RuntimeError`` for a device. The message is one line: the argument, what was expected, what
was given. Nothing was launched, and the CUDA context is as usable as before."""

from __future__ import annotations


class Error(Exception):
    """Base of all exceptions of this package."""


class InvalidArgument(Error, ValueError):
    """A shape, stride, alignment, value or combination that the call does not take."""


class InvalidType(Error, TypeError):
    """A data type, or kind of object, that the argument does not take."""


class Unsupported(InvalidArgument):
    """The kernel cannot run on this device, or with these sizes."""


class NotFound(InvalidArgument, LookupError):
    """No package has such a kernel, and none could be compiled."""


class CompileError(InvalidArgument):
    """dl-compile refused the request; its line is in the message."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class BadPackage(Error, ValueError):
    """A package is truncated, corrupt, or of another version."""


class DeviceError(Error, RuntimeError):
    """The driver, the dynamic loader or a kernel reported an error."""


class CaptureError(Error, RuntimeError):
    """A kernel would have to be loaded or compiled while a CUDA graph is captured."""


class OutOfMemory(Error, MemoryError):
    """The runtime could not allocate host memory."""


class GradientError(Error, NotImplementedError):
    """A gradient was asked for: kernels compute forward results only."""


class CopyWarning(UserWarning):
    """A tensor was copied or converted, since no kernel takes it as it is."""
