#pragma once

#include <array>
#include <string_view>

/// The columns of the tables of a recording, in order: what the writer writes and the reader asks for.
namespace sluice::trace::columns {

inline constexpr std::array<std::string_view, 4> kIterations{"iteration", "kind", "start", "end"};
inline constexpr std::array<std::string_view, 10> kTasks{"iteration", "stage", "pass",  "chunk", "microbatch",
                                                         "whole",     "slot",  "start", "end",   "noticed"};
inline constexpr std::array<std::string_view, 8> kMessages{"iteration", "edge",    "direction", "microbatch",
                                                           "sent",      "offered", "accepted",  "arrived"};
inline constexpr std::array<std::string_view, 4> kAgreements{"iteration", "stage", "asked", "decided"};
inline constexpr std::array<std::string_view, 14> kDecisions{
    "iteration", "stage", "pass",       "chunk",      "microbatch", "whole",         "slot",
    "at",        "focus", "runnable_f", "runnable_b", "runnable_w", "held_by_limit", "held_by_order"};

}  // namespace sluice::trace::columns
