# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by the black-box suites: brokers, HTTP clients, the message plane's calls."""
