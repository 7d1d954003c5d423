#pragma once

namespace sluice::gpt {

/// Keeps gloo's socket threads from preempting the threads they serve (SCHED_BATCH). They poll with a
/// try-lock while the thread that holds the lock does the work; woken in its place on a machine with few
/// free cores, they spin through its time slice, and an all-reduce of 40 bytes takes 6 ms instead of 0.4.
/// Their share of the processor stays what it is: as idle threads they would starve on a loaded machine.
void calm_gloo_threads();

}  // namespace sluice::gpt
