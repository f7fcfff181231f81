"""Interfaces to the engines that store data, and their adapters. Each folder is one role: an
interface, and one adapter per engine."""
