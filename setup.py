"Packaging: everything that can change stands in settings.ini"
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(here/'settings.ini', encoding='utf8')
cfg = parser['DEFAULT']

extras = {extra: cfg[f'{extra}_requirements'].split() for extra in ('dev', 'bench')}

setup(
    name=cfg['lib_name'],
    version=cfg['version'],
    description=cfg['description'],
    keywords=cfg['keywords'],
    author=cfg['author'],
    author_email=cfg['author_email'],
    license='Apache-2.0',
    license_files=['LICENSE'],
    long_description=(here/'README.md').read_text(encoding='utf8'),
    long_description_content_type='text/markdown',
    packages=find_packages(include=['transformer_nb*']),
    python_requires='>=' + cfg['min_python'],
    install_requires=cfg['requirements'].split(),
    extras_require=extras,
    entry_points={'console_scripts': cfg['console_scripts'].split()},
)
