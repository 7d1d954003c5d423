#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

/// What a test can ask of the fake device. The symbols are weak: null when the real library is loaded, so
/// that the same executable runs on a GPU and skips what only the fake can do.
extern "C" {

/// The `nth` next call of a function of the runtime (1: the next) fails with `code`, and is not carried out.
/// `__cudaLaunchKernel` is what `<<<>>>` calls; `execute` stands for the operations that streams run. Codes
/// that leave a real device unusable (cudaErrorIllegalAddress, cudaErrorLaunchFailure, ...) do so here.
__attribute__((weak)) void fakecuda_fail(const char* function, int nth, cudaError_t code);
/// Forgets planned failures and the error that made the device unusable.
__attribute__((weak)) void fakecuda_recover();

/// Operations are held up at random, each at most so long; 0 for none. Also: FAKECUDA_DELAY_US.
__attribute__((weak)) void fakecuda_delay_us(int most);
/// Of the delays and of the order of a graph's independent nodes. Also: FAKECUDA_SEED. For streams made
/// later.
__attribute__((weak)) void fakecuda_seed(unsigned seed);

/// The stream runs nothing more until it is resumed.
__attribute__((weak)) void fakecuda_hang(cudaStream_t stream);
__attribute__((weak)) void fakecuda_resume(cudaStream_t stream);

/// As a driver of that version (12040 is 12.4) answers; 0 for none installed. Also: FAKECUDA_DRIVER.
__attribute__((weak)) void fakecuda_driver_version(int version);
/// Whether devices can reach each other and handles can be opened elsewhere (containers often forbid it).
__attribute__((weak)) void fakecuda_allow_peers(bool allowed);

/// What exists and was not destroyed: "allocations", "host allocations", "streams", "events", "graphs",
/// "executable graphs", "opened handles", and of the fake NCCL "communicators" and "windows". 0 for any
/// other word.
__attribute__((weak)) std::size_t fakecuda_live(const char* kind);
/// As `fakecuda_live("allocations")`.
__attribute__((weak)) std::size_t fakecuda_live_allocations();

/// How often the fake reported a misuse since this was called last. A process that ends with reports not
/// fetched by this call ends with status 67.
__attribute__((weak)) std::size_t fakecuda_take_reports();
/// Whether the last call of cudaProfilerStart and cudaProfilerStop was the former.
__attribute__((weak)) bool fakecuda_profiling();
}
