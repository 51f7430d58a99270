"""Hosts in network namespaces, each in a process of its own, to do what real networks do. Used by
tests, too.

namespaces   a small internet: public hosts, NATs, cut wires; needs root on Linux, iproute2 and
             iptables
remote       a host in such a namespace, driven by JSON lines
meetings     two hosts behind NATs that meet at a relay
"""
