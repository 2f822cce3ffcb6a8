"""One figure as a JSON line: medians of the rounds, ours beside the limit's and the best peer's."""
import statistics


def median(values):
    return statistics.median(values) if values else None


def ratio(ours, theirs):
    """The median of the rounds' ratios where both were measured in turn, else the ratio of the medians."""
    if not ours or not theirs:
        return None
    if len(ours) == len(theirs):
        return statistics.median(a / b for a, b in zip(ours, theirs))
    return median(ours) / median(theirs)


def line(metric, unit, ours, peers=(), peer_name=None, limits=(), limit_name=None, reason=None):
    """`ours`, `peers`, `limits`: values of the rounds, in their order. `reason`: why something is null."""
    figure = {"metric": metric, "unit": unit, "ours": median(ours), "peer": median(peers), "peer_name": peer_name,
              "ratio": median(ours) / median(peers) if ours and median(peers) else None, "limit": median(limits), "limit_name": limit_name,
              "limit_ratio": ratio(ours, limits), "n": len(ours), "spread": [min(ours), max(ours)] if ours else None}
    return figure | ({"reason": reason} if reason else {})
