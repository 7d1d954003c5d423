# Install rules and the package config that find_package(Sluice) reads.

include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")

install(DIRECTORY engine/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(TARGETS sluice_core sluice_host sluice_sim sluice_adapt sluice_trace sluice_agree sluice_process EXPORT SluiceTargets)
install(EXPORT SluiceTargets NAMESPACE Sluice:: DESTINATION ${package_folder})

# On their own, so that consumers without UCX, CUDA or LibTorch need not find these.
if(SLUICE_HAVE_UCX)
  install(TARGETS sluice_ucx EXPORT SluiceUcxTargets)
  install(EXPORT SluiceUcxTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()
if(SLUICE_HAVE_CUDA)
  install(DIRECTORY graphs/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
  install(TARGETS sluice_cuda sluice_graphs EXPORT SluiceCudaTargets)
  install(EXPORT SluiceCudaTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()
if(SLUICE_HAVE_NCCL)
  install(TARGETS sluice_nccl EXPORT SluiceNcclTargets)
  install(EXPORT SluiceNcclTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()
if(SLUICE_HAVE_NVTX)
  install(TARGETS sluice_nvtx EXPORT SluiceNvtxTargets)
  install(EXPORT SluiceNvtxTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()
if(SLUICE_HAVE_TORCH)
  install(DIRECTORY bindings/torch/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.hpp")
  install(TARGETS sluice_torch EXPORT SluiceTorchTargets)
  install(EXPORT SluiceTorchTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()
if(SLUICE_TORCH_LINKS_CUDA)
  install(TARGETS sluice_torch_stages sluice_torch_cuda EXPORT SluiceTorchCudaTargets)
  install(EXPORT SluiceTorchCudaTargets NAMESPACE Sluice:: DESTINATION ${package_folder})
endif()

# What `sluice train` learns when it is given no text.
file(GLOB pages CONFIGURE_DEPENDS README.md docs/*.md)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/text)

configure_package_config_file(cmake/SluiceConfig.cmake.in "${PROJECT_BINARY_DIR}/SluiceConfig.cmake"
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/SluiceConfig.cmake" "${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake"
  DESTINATION ${package_folder})
