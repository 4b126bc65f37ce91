def hal_files():
    return ()


def application_files(app):
    return []
