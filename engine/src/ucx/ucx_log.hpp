#pragma once

namespace sluice::ucx {

/// From now on UCX writes to standard error, unless UCX_LOG_FILE says otherwise: standard output is for
/// results.
void log_to_stderr();

/// Keeps UCX silent while it lives: about what a peer that is gone leaves open, or errors that are reported
/// in better words.
class QuietUcx {
 public:
  QuietUcx() noexcept;
  ~QuietUcx();
  QuietUcx(const QuietUcx&) = delete;
  QuietUcx& operator=(const QuietUcx&) = delete;
};

}  // namespace sluice::ucx
