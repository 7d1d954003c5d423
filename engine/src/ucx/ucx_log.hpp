#pragma once

namespace sluice::ucx {

/// From now on UCX writes to standard error, unless UCX_LOG_FILE says otherwise: standard output is for
/// results.
void log_to_stderr();

/// Keeps UCX from warning, while it lives, of what a peer that is gone leaves open.
class QuietUcx {
 public:
  QuietUcx() noexcept;
  ~QuietUcx();
  QuietUcx(const QuietUcx&) = delete;
  QuietUcx& operator=(const QuietUcx&) = delete;
};

}  // namespace sluice::ucx
