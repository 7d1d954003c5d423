#include "ucp_handles.hpp"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "sluice/error.hpp"
#include "ucx_log.hpp"

namespace sluice::ucx {
namespace {

/// Minor version of UCX 1 that was seen not to abort; 1.13 was seen to.
constexpr unsigned kFirstThatSurvives = 22;
constexpr const char* kPiece = "256k";

/// UCX warns of settings of transports that are switched off.
bool may_use_tcp() {
  const char* const transports = std::getenv("UCX_TLS");
  if (transports == nullptr) return true;
  const std::string_view names(transports);
  return names.find("tcp") != names.npos || names.find("all") != names.npos;
}

}  // namespace

void check(ucs_status_t status, const char* what) {
  if (!UCS_STATUS_IS_ERR(status)) return;
  throw Error(std::string("UCX: ") + what + ": " + ucs_status_string(status));
}

Config::Config() {
  log_to_stderr();
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "reading the configuration");
  config_.reset(config);
}

void Config::set(const char* name, const char* value) {
  check(ucp_config_modify(config_.get(), name, value), name);
}

void Config::set_default(const char* name, const char* value) {
  if (std::getenv((std::string("UCX_") + name).c_str()) == nullptr) set(name, value);
}

void Config::copy_over_tcp() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  if (major > 1 || minor >= kFirstThatSurvives) return;
  set_default("ZCOPY_THRESH", "inf");
  // TCP cannot get, so it takes the way that copies.
  set_default("RNDV_SCHEME", "get_zcopy");
  if (!may_use_tcp()) return;
  // Copies in large pieces cost little. UCX takes the transports' own settings from the environment only.
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("UCX_TCP_TX_SEG_SIZE", kPiece, 0);
    setenv("UCX_TCP_RX_SEG_SIZE", kPiece, 0);
  });
}

Context::Context(std::uint64_t features, const Config& config) {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = features;
  ucp_context_h context = nullptr;
  check(ucp_init(&params, config.get(), &context), "looking for devices");
  context_.reset(context);
}

Worker::Worker(const Context& context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  // What a dead peer has not completed is still open when the worker ends.
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context.get(), &params, &worker), "creating a worker");
  worker_.reset(worker);
}

std::vector<std::byte> Worker::address(bool network_only) const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attributes.address_flags = network_only ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : 0;
  check(ucp_worker_query(get(), &attributes), "asking for the worker's address");
  const auto* bytes = reinterpret_cast<const std::byte*>(attributes.address);
  std::vector<std::byte> copy(bytes, bytes + attributes.address_length);
  ucp_worker_release_address(get(), attributes.address);
  return copy;
}

std::size_t Worker::longest_header() const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  check(ucp_worker_query(get(), &attributes), "asking for the longest header");
  return attributes.max_am_header;
}

void Worker::on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = callback;
  params.arg = argument;
  check(ucp_worker_set_am_recv_handler(get(), &params), "setting a message handler");
}

}  // namespace sluice::ucx
