#pragma once

#include <cstdint>
#include <string>

#include "sluice/pipeline.hpp"
#include "sluice/process/rank_grid.hpp"
#include "sluice/waiting.hpp"

namespace sluice::process {

/// What a rank waits for, for programs:
/// `{"rank":3,"stage":1,"iteration":4,"finished":5,"pairs":8,"in_flight":2,"limit":4,"held_by_limit":0,
/// "since_s":61.2,"launched":[{"tasks":1,"last":"B2 of chunk 1"}],"waits":[{"task":"F5 of chunk 1",
/// "waits_for":"message","needs":"activation of edge 0","from_stage":0,"from_rank":1,"since_s":61.2}],
/// "ready":[{"task":"B4 of chunk 1","waits_for":"agreement"}],"left_out":0}`
///
/// `from_*` is `to_*` where a receiver is awaited. At most 256 entries of each list; `left_out` counts the
/// others.
[[nodiscard]] std::string waiting_json(const Waiting& waiting, const RankGrid& grid);

/// The tasks of a rank that wait for another one that is gone, some of them by name:
/// `waiting for rank 2: F5 (activation of edge 1), B3 (gradient of edge 2, through rank 1) and 7 more`.
/// Through others, where what the task needs is made from what the other rank makes. Empty if none does.
[[nodiscard]] std::string waiting_for(const Waiting& waiting, const Pipeline& pipeline, const RankGrid& grid,
                                      std::uint32_t other);

}  // namespace sluice::process
