#include <nvtx3/nvToolsExt.h>

/// A mark in a domain of this library's own.
extern "C" void mark_from_library() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "from the library";
  nvtxDomainMarkEx(domain, &event);
}
