// An NVTX injection library: NVTX_INJECTION64_PATH=<this> NVTX_PROBE_OUT=calls.jsonl program.
//
// It writes down the calls that Sluice makes; NVTX drops the others. Each library of a program that holds
// NVTX initialises it once.

// Only the types: the functions are what this library provides.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "call_log.hpp"

namespace sluice::nvtx_probe {
namespace {

/// What a handle points to.
struct Domain {
  std::string name;
  std::mutex mutex;
  std::map<std::uint32_t, std::string> categories;
};

/// All that handles point to, never freed: a handle may be used as long as the process lives.
class Kept {
 public:
  static Kept& instance() {
    static Kept& kept = *new Kept;
    return kept;
  }

  Domain* domain(const char* name) {
    const std::lock_guard lock(mutex_);
    domains_.emplace_back().name = name;
    return &domains_.back();
  }
  std::string* string(const char* text) {
    const std::lock_guard lock(mutex_);
    return &strings_.emplace_back(text);
  }

 private:
  std::mutex mutex_;
  std::deque<Domain> domains_;
  std::deque<std::string> strings_;
};

/// Open push/pop ranges of this thread.
int& depth(nvtxDomainHandle_t domain) {
  thread_local std::map<nvtxDomainHandle_t, int> depths;
  return depths[domain];
}

Domain* domain_of(nvtxDomainHandle_t handle) { return reinterpret_cast<Domain*>(handle); }

nlohmann::json name_of(nvtxDomainHandle_t handle) {
  return handle == nullptr ? nlohmann::json() : nlohmann::json(domain_of(handle)->name);
}

nlohmann::json payload_of(const nvtxEventAttributes_t& event) {
  switch (event.payloadType) {
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
      return event.payload.ullValue;
    case NVTX_PAYLOAD_TYPE_INT64:
      return event.payload.llValue;
    case NVTX_PAYLOAD_TYPE_DOUBLE:
      return event.payload.dValue;
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
      return event.payload.uiValue;
    case NVTX_PAYLOAD_TYPE_INT32:
      return event.payload.iValue;
    case NVTX_PAYLOAD_TYPE_FLOAT:
      return event.payload.fValue;
    default:
      return nullptr;
  }
}

nlohmann::json message_of(const nvtxEventAttributes_t& event) {
  if (event.messageType == NVTX_MESSAGE_TYPE_ASCII && event.message.ascii != nullptr)
    return event.message.ascii;
  if (event.messageType == NVTX_MESSAGE_TYPE_REGISTERED && event.message.registered != nullptr)
    return *reinterpret_cast<const std::string*>(event.message.registered);
  return nullptr;
}

nlohmann::json category_of(nvtxDomainHandle_t handle, std::uint32_t category) {
  if (handle == nullptr) return nullptr;
  const std::lock_guard lock(domain_of(handle)->mutex);
  const auto found = domain_of(handle)->categories.find(category);
  return found == domain_of(handle)->categories.end() ? nlohmann::json() : nlohmann::json(found->second);
}

nlohmann::json describe(const char* call, nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  nlohmann::json line = {{"call", call}, {"domain", name_of(domain)}};
  if (event == nullptr) return line;
  line["message"] = message_of(*event);
  line["registered"] = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  line["category"] = category_of(domain, event->category);
  line["payload"] = payload_of(*event);
  return line;
}

void write(nlohmann::json line) { CallLog::instance().write(std::move(line)); }

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  write({{"call", "domain"}, {"domain", name}});
  return reinterpret_cast<nvtxDomainHandle_t>(Kept::instance().domain(name));
}

void NVTX_API destroy_domain(nvtxDomainHandle_t domain) { write(describe("destroy", domain, nullptr)); }

void NVTX_API name_category(nvtxDomainHandle_t domain, std::uint32_t category, const char* name) {
  if (domain == nullptr) return;
  const std::lock_guard lock(domain_of(domain)->mutex);
  domain_of(domain)->categories[category] = name;
}

nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t /*domain*/, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(Kept::instance().string(text));
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  nlohmann::json line = describe("push", domain, event);
  line["depth"] = depth(domain);
  write(std::move(line));
  return depth(domain)++;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  nlohmann::json line = describe("pop", domain, nullptr);
  line["depth"] = --depth(domain);
  write(std::move(line));
  return depth(domain);
}

nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  static std::atomic<nvtxRangeId_t> last{0};
  const nvtxRangeId_t range = ++last;
  nlohmann::json line = describe("start", domain, event);
  line["range"] = range;
  write(std::move(line));
  return range;
}

void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  nlohmann::json line = describe("end", domain, nullptr);
  line["range"] = range;
  write(std::move(line));
}

void NVTX_API mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  write(describe("mark", domain, event));
}

void NVTX_API name_thread(std::uint32_t thread, const char* name) {
  write({{"call", "name thread"}, {"named", thread}, {"name", name}});
}

void NVTX_API name_stream(const void* stream, const char* name) {
  write({{"call", "name stream"}, {"named", reinterpret_cast<std::uintptr_t>(stream)}, {"name", name}});
}

/// One of NVTX's tables of functions, by module.
class Table {
 public:
  Table(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &functions_, &size_) == 0) size_ = 0;
  }

  template <typename Function>
  void set(unsigned id, Function function) {
    if (id < size_) *functions_[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }

 private:
  NvtxFunctionTable functions_ = nullptr;
  unsigned size_ = 0;
};

}  // namespace
}  // namespace sluice::nvtx_probe

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  using namespace sluice::nvtx_probe;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return 0;
  Table core(*callbacks, NVTX_CB_MODULE_CORE);
  core.set(NVTX_CBID_CORE_NameOsThreadA, name_thread);
  Table cuda(*callbacks, NVTX_CB_MODULE_CUDART);
  cuda.set(NVTX_CBID_CUDART_NameCudaStreamA, name_stream);
  Table domains(*callbacks, NVTX_CB_MODULE_CORE2);
  domains.set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  domains.set(NVTX_CBID_CORE2_DomainDestroy, destroy_domain);
  domains.set(NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  domains.set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  domains.set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  domains.set(NVTX_CBID_CORE2_DomainRangePop, pop);
  domains.set(NVTX_CBID_CORE2_DomainRangeStartEx, start);
  domains.set(NVTX_CBID_CORE2_DomainRangeEnd, end);
  domains.set(NVTX_CBID_CORE2_DomainMarkEx, mark);
  write({{"call", "initialize"}});
  return 1;
}
