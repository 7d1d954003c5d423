#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "sluice/process/bootstrap.hpp"
#include "sluice/process/bytes.hpp"

namespace sluice::ucx {

/// Rank 0 of two, of which the other one is not there; keeps the bytes that rank 0 gave.
class LonelyBootstrap final : public process::Bootstrap {
 public:
  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return 2; }
  [[nodiscard]] const std::string& host() const noexcept override { return host_; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    given.assign(own.begin(), own.end());
    return {given, given};
  }

  /// The worker's address, which follows the namespace and the boot id.
  [[nodiscard]] std::vector<std::byte> address() const {
    process::ByteReader reader(given);
    (void)reader.get<std::uint64_t>();
    (void)reader.get_text();
    return reader.get_all<std::byte>();
  }

  std::vector<std::byte> given;

 private:
  std::string host_ = "localhost";
};

/// Sends active messages as nobody should.
class RawSender {
 public:
  explicit RawSender(std::span<const std::byte> address) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    must(ucp_init(&params, nullptr, &context_));
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_FLAGS;
    worker.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
    must(ucp_worker_create(context_, &worker, &worker_));
    ucp_ep_params_t endpoint{};
    endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    endpoint.address = reinterpret_cast<const ucp_address_t*>(address.data());
    must(ucp_ep_create(worker_, &endpoint, &endpoint_));
  }
  ~RawSender() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }
  RawSender(const RawSender&) = delete;
  RawSender& operator=(const RawSender&) = delete;

  /// Starts to send; both are kept until the end.
  void send(unsigned id, std::span<const std::byte> header, std::size_t payload, bool rendezvous) {
    kept_.emplace_back(header.begin(), header.end());
    const std::vector<std::byte>& head = kept_.back();
    kept_.emplace_back(payload);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = rendezvous ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    const ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint_, id, head.data(), head.size(), kept_.back().data(), payload, &param);
    if (UCS_PTR_IS_ERR(request)) must(UCS_PTR_STATUS(request));
    if (UCS_PTR_IS_PTR(request)) requests_.push_back(request);
  }

  void progress() { ucp_worker_progress(worker_); }
  /// Everything sent has been received or thrown away.
  [[nodiscard]] bool done() {
    std::erase_if(requests_, [](ucs_status_ptr_t request) {
      if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ucp_request_free(request);
      return true;
    });
    return requests_.empty();
  }

 private:
  static void must(ucs_status_t status) {
    if (status != UCS_OK) throw std::runtime_error(ucs_status_string(status));
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::list<std::vector<std::byte>> kept_;
  std::vector<ucs_status_ptr_t> requests_;
};

}  // namespace sluice::ucx
