#pragma once

/// What a test can ask of the fake NCCL: weak symbols like those of `controls.hpp`, null with the real
/// libraries. They belong to the fake runtime, which is there before a program loads NCCL.
extern "C" {

/// The `nth` next call of an NCCL function of this process (1: the next) fails with `code`, an ncclResult_t,
/// and is not carried out. `fakecuda_recover` forgets it.
__attribute__((weak)) void fakecuda_nccl_fail(const char* function, int nth, int code);

/// What ncclGetVersion answers, coded as there: 22809 is 2.28.9; 0 for the header's. Also: FAKENCCL_VERSION.
__attribute__((weak)) void fakecuda_nccl_version(int version);

/// The communicator of this process, or all of them for null, have this asynchronous error from now on, as
/// if NCCL had found one: what is enqueued on them waits until they are aborted.
__attribute__((weak)) void fakecuda_nccl_break(void* communicator, int code);

/// Of the puts and signals that this process's streams carry out, the nth next one never signals; a put's
/// data arrives.
__attribute__((weak)) void fakecuda_nccl_lose_signal(int nth);

/// How long an operation waits for others that were launched too, before that is reported as a deadlock.
/// Also: FAKENCCL_DEADLOCK_MS (10000).
__attribute__((weak)) void fakecuda_nccl_deadlock_ms(int bound);
}
