"""What the waiting formulas read of a service law, at every point: moments of the job and of what is left of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.queueing.service import Floats, ServiceLaw, scv_of


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Moments of the service time at every point: m_1..m_4, and g_1..g_3 of the least of k residuals; s^j."""

    moments: tuple[Floats, Floats, Floats, Floats]
    minima: tuple[Floats, Floats, Floats]
    heavy_share: float = 0.0
    long_job_work: float = 0.0

    @property
    def scv(self) -> Floats:
        return scv_of(self.moments[0], self.moments[1])

    @property
    def skew_factor(self) -> Floats:
        """E[R^2] / (2 E[R]^2) of the residual R: 1 for exponential jobs, above 1 where a few jobs are very long."""
        return self.residual_moment(2) / (2.0 * self.residual_moment(1) ** 2)

    def residual_moment(self, order: int) -> Floats:
        """E[R^order] of the residual of one job, order 1 to 3."""
        return self.moments[order] / ((order + 1) * self.moments[0])


def jobs_of(service: ServiceLaw, servers: ArrayLike, scale: ArrayLike = 1.0) -> Jobs:
    """The moments of `scale` x service at every point of `servers` and `scale`."""
    counts, factor = np.broadcast_arrays(np.asarray(servers, dtype=float), np.asarray(scale, dtype=float))
    distinct, place = np.unique(counts, return_inverse=True)
    minima = service.residual_minimum_moments(distinct)[:, place.reshape(counts.shape)]
    m = [service.moment(order) * factor**order for order in (1, 2, 3, 4)]
    g = [minima[order] * factor ** (order + 1) for order in (0, 1, 2)]
    return Jobs((m[0], m[1], m[2], m[3]), (g[0], g[1], g[2]), service.heavy_share, service.long_job_work)
