"""Measurements that README and docs quote; each is a script."""
